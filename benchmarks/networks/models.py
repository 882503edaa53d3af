"""Networks of the contest: what each is built from, its published size, and its input. Batch 1, random weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from torch import Generator, Tensor, nn

PIXELS, TOKENS = 224, 128  # height and width of images; length of texts
MEL_BINS, FRAMES = 80, 3000  # the size of a spectrogram of 30 seconds of sound
VOCABULARY = 30_000  # numbers of tokens are drawn below it; each of the vocabularies here is larger


def image(generator: Generator) -> list[Tensor]:
    """An image (1, 3, height, width)."""
    import torch

    return [torch.randn(1, 3, PIXELS, PIXELS, generator=generator)]


def text(generator: Generator) -> list[Tensor]:
    """The numbers of tokens (1, tokens)."""
    import torch

    return [torch.randint(VOCABULARY, (1, TOKENS), generator=generator)]


def sound(generator: Generator) -> list[Tensor]:
    """A spectrogram (1, mel bins, frames)."""
    import torch

    return [torch.randn(1, MEL_BINS, FRAMES, generator=generator)]


def token_and_past(generator: Generator) -> list[Tensor]:
    """One token, and for each of GPT-2's layers the keys and the values of those before it (1, heads, past, 64)."""
    import torch

    from .architectures.configured import PAST

    token = torch.randint(VOCABULARY, (1, 1), generator=generator)
    return [token, *(torch.randn(1, 12, PAST, 64, generator=generator) for _ in range(2 * 12))]


@dataclass(frozen=True)
class Network:
    """One network: the function that builds it as "module:function" of `architectures`, its parameters, its input."""

    architecture: str
    parameters: int  # the published number; shared ones count once
    inputs: Callable[[Generator], list[Tensor]] = image
    convolutional: bool = True

    def build(self) -> nn.Module:
        """Build the architecture with the initial weights that its library draws."""
        build = cast("Callable[[], nn.Module]", resolve(f"benchmarks.networks.architectures.{self.architecture}"))
        return build()


NETWORKS: Mapping[str, Network] = {
    "VGG-16": Network("plain:vgg16", 138_357_544),
    "ResNet-18": Network("configured:resnet18", 11_689_512),
    "ResNet-50": Network("configured:resnet50", 25_557_032),
    "GoogLeNet": Network("plain:googlenet", 6_624_904),
    "SqueezeNet-1.1": Network("plain:squeezenet", 1_235_496),
    "ConvNeXt-T": Network("configured:convnext_tiny", 28_589_128),
    "ResNeXt-50": Network("joined:resnext50", 25_028_904),
    "ViT-B/16": Network("configured:vit_base", 86_567_656, convolutional=False),
    "DistilBERT": Network("configured:distilbert", 66_362_880, text, convolutional=False),
    "RegNet-Y-800MF": Network("configured:regnet_y_800mf", 6_263_168),
    "DenseNet-121": Network("joined:densenet121", 7_978_856),
    "EfficientNet-B0": Network("mobile:efficientnet_b0", 5_288_548),
    "BERT-base": Network("configured:bert_base", 109_482_240, text, convolutional=False),
    "MobileNet-V3-L": Network("mobile:mobilenet_v3", 5_483_032),
    "Swin-T": Network("configured:swin_tiny", 28_288_354, convolutional=False),
    "T5-small-encoder": Network("configured:t5_small_encoder", 35_330_816, text, convolutional=False),
    "MobileNet-V2": Network("configured:mobilenet_v2", 3_504_872),
    "ShuffleNet-V2": Network("mobile:shufflenet_v2", 2_278_604),
    "GPT-2-prefill": Network("configured:gpt2_prefill", 124_439_808, text, convolutional=False),
    "GPT-2-decode": Network("configured:gpt2_decode", 124_439_808, token_and_past, convolutional=False),
    "Whisper-tiny-encoder": Network("configured:whisper_tiny_encoder", 8_208_384, sound, convolutional=False),
}


def seeded(name: str, seed: int = 0) -> tuple[nn.Module, list[Tensor]]:
    """Build a network in evaluation mode and its inputs, the same for one seed on every machine of one PyTorch.

    Convolutions of images are drawn anew, scaled to keep the size of their inputs (He and others, 2015), and batch
    normalisation keeps it, too: with the initial statistics, the results of deep networks shrink or grow by orders of
    magnitude, and a wrong layer would not be seen in them.
    """
    import torch
    from torch import nn

    network = NETWORKS[name]
    torch.manual_seed(seed)
    model = network.build().eval()
    generator = torch.Generator().manual_seed(seed)
    inputs = network.inputs(generator)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.Conv2d) and network.convolutional:
                module.weight.normal_(0.0, math.sqrt(2.0 / module.weight[0].numel()), generator=generator)
        hooks = [module.register_forward_pre_hook(partial(_normalise, generator)) for module in model.modules()
                 if isinstance(module, nn.BatchNorm2d)]
        if hooks:
            model(*inputs)
        for hook in hooks:
            hook.remove()
    return model, inputs


def _normalise(generator: Generator, module: nn.BatchNorm2d, inputs: tuple[Tensor]) -> None:
    """Set the statistics before the first input passes, so that errors of rounding neither grow nor hide.

    With a variance for each channel, as training would leave it, and no offsets, random networks are chaotic: the
    rounding of bfloat16 changed the results of ShuffleNetV2 by 8 %, and those of MobileNetV3 by 11 % without offsets.
    With one variance for all channels and these offsets it is at most 2 % in all networks.
    """
    assert module.running_mean is not None
    assert module.running_var is not None
    variance = inputs[0].square().mean()
    module.running_var.fill_(variance)
    module.running_mean.normal_(0.0, 0.1, generator=generator).mul_(variance.sqrt())
    module.weight.normal_(1.0, 0.1, generator=generator)
    module.bias.normal_(0.0, 0.5, generator=generator)
