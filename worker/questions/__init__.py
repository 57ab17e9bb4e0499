"""What is found in a question before anything is retrieved for it.

Pure: receives texts and a model, opens nothing, knows no index but its name finder.
"""
