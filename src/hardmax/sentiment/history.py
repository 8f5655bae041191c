"""What is known of a training run."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch; of validation only where something was held back."""

    number: int
    train_loss: float
    loss: float | None = None  # of validation
    accuracy: float | None = None
    kept: bool = False  # whether the model has the weights of this epoch

    @property
    def quality(self) -> tuple[float, float]:
        """By which epochs are compared: accuracy, then loss."""
        if self.accuracy is None or self.loss is None:
            return float(self.number), 0.0  # the last one
        return self.accuracy, -self.loss
