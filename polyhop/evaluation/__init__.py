"""Evaluations: run over a question file, stored, compared.

Owns no metric (tasks/evaluation does) and prints nothing.
"""

from polyhop.evaluation.run import Evaluation, EvaluationRequest, evaluate_index, run_evaluation

__all__ = ["Evaluation", "EvaluationRequest", "evaluate_index", "run_evaluation"]
