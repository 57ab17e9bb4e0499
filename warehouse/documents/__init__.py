"""Document files to texts with sections: PDF, Word, PowerPoint, Excel, EPUB and e-mail, read in a limited process."""
