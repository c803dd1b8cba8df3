"""All programs, by the file they are recorded in, and the modules whose printing is recorded."""

from nn_cases_activations import ACTIVATIONS
from nn_cases_attention import ATTENTION, RECURRENT
from nn_cases_convolution import CONVOLUTION, IMAGES, POOLING
from nn_cases_errors import ERRORS
from nn_cases_layers import LAYERS
from nn_cases_losses import LOSSES
from nn_cases_printing import REPRS

TABLES = {
    "activations": ACTIVATIONS,
    "attention": ATTENTION,
    "convolution": CONVOLUTION,
    "errors": ERRORS,
    "images": IMAGES,
    "layers": LAYERS,
    "losses": LOSSES,
    "pooling": POOLING,
    "recurrent": RECURRENT,
}

__all__ = ["REPRS", "TABLES"]
