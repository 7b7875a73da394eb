"""A progress bar per model, with loss and rows per second; nothing is printed if the output is not a terminal.

with training_progress(Console(stderr=True)) as progress:
    train_all(spec, feedback, catalogue, users, positive, progress)
"""

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


def training_progress(console: Console) -> Progress:
    """Bars for training and for writing scores; a context manager."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
