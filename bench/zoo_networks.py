"""The networks of bench/zoo: random weights, exported from timm, torchvision, transformers and torch.

Each row is a name and a function of the batch that gives a module and its inputs.  Names say what decides the work: the family, pixels or tokens.
"""
import torch
from torch import nn


def timm_net(name, side):
    def make(batch):
        import timm
        return timm.create_model(name, pretrained=False, exportable=True).eval(), (torch.rand(batch, 3, side, side),)
    return make


def vision_net(name, side, **options):
    def make(batch):
        import torchvision.models as models
        module = models.get_model(name, weights=None, weights_backbone=None, **options) if '_' in name and any(
            part in name for part in ('deeplab', 'lraspp', 'fcn', 'ssd')) else models.get_model(name, weights=None, **options)
        return FirstOf(module.eval()), (torch.rand(batch, 3, side, side),)
    return make


class FirstOf(nn.Module):
    """Segmentation networks give a dictionary, detectors a list of them."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        y = self.inner(x)
        if isinstance(y, list):
            y = y[0]
        return tuple(y.values()) if isinstance(y, dict) else y


class Words(nn.Module):
    """An encoder of transformers with plain tensors in and out."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, ids):
        return self.inner(input_ids=ids).last_hidden_state


def words_net(kind, tokens, **options):
    def make(batch):
        import transformers
        config = getattr(transformers, kind + 'Config')(vocab_size=8000, attn_implementation='eager', **options)
        return Words(getattr(transformers, kind + 'Model')(config).eval()), (torch.randint(0, 8000, (batch, tokens)),)
    return make


BERT = {'hidden_size': 384, 'num_hidden_layers': 6, 'num_attention_heads': 12, 'intermediate_size': 1536}


class Recurrent(nn.Module):
    def __init__(self, kind, inputs, units, layers, both):
        super().__init__()
        self.cell = getattr(nn, kind)(inputs, units, layers, batch_first=True, bidirectional=both)
        self.head = nn.Linear(units * (2 if both else 1), 32)

    def forward(self, x):
        return self.head(self.cell(x)[0])


def recurrent_net(kind, inputs, units, layers, both, steps):
    return lambda batch: (Recurrent(kind, inputs, units, layers, both).eval(), (torch.rand(batch, steps, inputs),))


class Speech(nn.Module):
    """Convolutions over frames, then two layers of GRU: the shape of keyword and text recognisers."""

    def __init__(self):
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, (2, 1), 1), nn.ReLU())
        self.cell = nn.GRU(64 * 10, 128, 2, batch_first=True)
        self.head = nn.Linear(128, 40)

    def forward(self, x):
        y = self.front(x).permute(0, 3, 1, 2)
        return self.head(self.cell(y.flatten(2))[0])


class Block(nn.Sequential):
    def __init__(self, i, o):
        super().__init__(nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, base=24):
        super().__init__()
        self.down = nn.ModuleList([Block(3, base), Block(base, 2 * base), Block(2 * base, 4 * base)])
        self.middle = Block(4 * base, 8 * base)
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (4 * base, 2 * base, base)])
        self.join = nn.ModuleList([Block(2 * n, n) for n in (4 * base, 2 * base, base)])
        self.last = nn.Conv2d(base, 2, 1)

    def forward(self, x):
        kept = []
        for block in self.down:
            kept.append(block(x))
            x = nn.functional.max_pool2d(kept[-1], 2)
        x = self.middle(x)
        for up, join in zip(self.up, self.join):
            x = join(torch.cat([up(x), kept.pop()], 1))
        return self.last(x)


class Larger(nn.Module):
    """Super-resolution by sub-pixels."""

    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, 48, 3, 1, 1)]
        for _ in range(4):
            layers += [nn.PReLU(48), nn.Conv2d(48, 48, 3, 1, 1)]
        self.body = nn.Sequential(*layers, nn.Conv2d(48, 12, 3, 1, 1), nn.PixelShuffle(2))

    def forward(self, x):
        return self.body(x) + nn.functional.interpolate(x, scale_factor=2, mode='bilinear', align_corners=False)


NETWORKS = {
    'resnet18-96': timm_net('resnet18', 96),
    'resnet18-224': timm_net('resnet18', 224),
    'resnet50-224': timm_net('resnet50', 224),
    'resnet34-384': timm_net('resnet34', 384),
    'resnext26ts-256': timm_net('resnext26ts', 256),
    'res2net50-224': timm_net('res2net50_26w_4s', 224),
    'seresnet26t-192': timm_net('seresnext26t_32x4d', 192),
    'hrnet-w18s-224': timm_net('hrnet_w18_small', 224),
    'deeplab-mobilenet-256': vision_net('deeplabv3_mobilenet_v3_large', 256),
    'deeplab-mobilenet-384': vision_net('deeplabv3_mobilenet_v3_large', 384),
    'lraspp-256': vision_net('lraspp_mobilenet_v3_large', 256),
    'efficientnet-b0-224': timm_net('efficientnet_b0', 224),
    'efficientnetv2-b0-192': timm_net('tf_efficientnetv2_b0', 192),
    'efficientnet-lite0-224': timm_net('efficientnet_lite0', 224),
    'mobilenetv2-96': timm_net('mobilenetv2_100', 96),
    'mobilenetv2-224': timm_net('mobilenetv2_100', 224),
    'mobilenetv3-large-224': timm_net('mobilenetv3_large_100', 224),
    'mobilenetv3-small-96': timm_net('mobilenetv3_small_100', 96),
    'mnasnet-224': timm_net('mnasnet_100', 224),
    'mixnet-s-224': timm_net('mixnet_s', 224),
    'ghostnet-224': timm_net('ghostnet_100', 224),
    'lcnet-224': timm_net('lcnet_100', 224),
    'shufflenetv2-224': vision_net('shufflenet_v2_x1_0', 224),
    'squeezenet-224': vision_net('squeezenet1_1', 224),
    'regnetx-008-224': timm_net('regnetx_008', 224),
    'regnety-008-224': timm_net('regnety_008', 224),
    'densenet121-224': timm_net('densenet121', 224),
    'dla34-224': timm_net('dla34', 224),
    'cspdarknet53-256': timm_net('cspdarknet53', 256),
    'repvgg-a0-224': timm_net('repvgg_a0', 224),
    'inception-v3-299': timm_net('inception_v3', 299),
    'convnext-atto-224': timm_net('convnext_atto', 224),
    'convnext-tiny-224': timm_net('convnext_tiny', 224),
    'poolformer-s12-224': timm_net('poolformer_s12', 224),
    'edgenext-xs-256': timm_net('edgenext_x_small', 256),
    'mobilevit-xs-256': timm_net('mobilevit_xs', 256),
    'levit-128s-224': timm_net('levit_128s', 224),
    'vit-tiny-224': timm_net('vit_tiny_patch16_224', 224),
    'vit-small-384': timm_net('vit_small_patch16_384', 384),
    'swin-tiny-224': timm_net('swin_tiny_patch4_window7_224', 224),
    'mixer-s32-224': timm_net('mixer_s32_224', 224),
    'ssdlite-320': vision_net('ssdlite320_mobilenet_v3_large', 320),
    'unet-192': lambda batch: (UNet().eval(), (torch.rand(batch, 3, 192, 192),)),
    'larger-96': lambda batch: (Larger().eval(), (torch.rand(batch, 3, 96, 96),)),
    'minilm-16': words_net('Bert', 16, **BERT),
    'minilm-128': words_net('Bert', 128, **BERT),
    'minilm-512': words_net('Bert', 512, **BERT),
    'distilbert-64': words_net('DistilBert', 64, n_layers=4, dim=512, hidden_dim=2048, n_heads=8),
    'gpt2-64': words_net('GPT2', 64, n_embd=384, n_layer=4, n_head=6),
    'lstm-both-256-50': recurrent_net('LSTM', 80, 256, 2, True, 50),
    'lstm-128-1': recurrent_net('LSTM', 64, 128, 1, False, 1),
    'gru-128-100': recurrent_net('GRU', 40, 128, 2, False, 100),
    'rnn-128-32': recurrent_net('RNN', 40, 128, 1, False, 32),
    'speech-gru': lambda batch: (Speech().eval(), (torch.rand(batch, 1, 40, 100) - 0.5,)),
}
# Made of the network before it by ONNX Runtime's quantiser: weights in int8 and values quantised as they come, or everything (QDQ, per channel) from random inputs.
INT8 = {
    'minilm-16-int8': ('minilm-16', 'dynamic'),
    'minilm-128-int8': ('minilm-128', 'dynamic'),
    'distilbert-64-int8': ('distilbert-64', 'dynamic'),
    'resnet18-224-int8': ('resnet18-224', 'static'),
    'resnet50-224-int8': ('resnet50-224', 'static'),
    'mobilenetv2-224-int8': ('mobilenetv2-224', 'static'),
}
NETWORKS.update({name: NETWORKS[base] for name, (base, _) in INT8.items()})
SINGLE = {'ssdlite-320'}  # whose export holds for a batch of one


class Samples:
    """Inputs to calibrate with."""

    def __init__(self, path, count=4):
        import numpy as np
        import onnx
        value = onnx.load(path).graph.input[0]
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        self.rest = iter([{value.name: np.random.default_rng(i).random(shape, np.float32)} for i in range(count)])

    def get_next(self):
        return next(self.rest, None)


def quantise(path, how):
    """In place."""
    import os
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process
    if how == 'dynamic':
        q.quantize_dynamic(path, path + '.int8', weight_type=q.QuantType.QInt8)
    else:
        quant_pre_process(path, path + '.ready')
        q.quantize_static(path + '.ready', path + '.int8', Samples(path), quant_format=q.QuantFormat.QDQ, per_channel=True,
                          activation_type=q.QuantType.QUInt8, weight_type=q.QuantType.QInt8)
        os.remove(path + '.ready')
    os.replace(path + '.int8', path)


def export(name, batch, path):
    """Writes the network; the same weights each time."""
    torch.manual_seed(1)
    module, inputs = NETWORKS[name](batch)
    for part in module.modules():  # timm starts the last norm of a block with 0: the convolution before it would vanish
        if isinstance(part, nn.BatchNorm2d) and part.affine and not part.weight.any():
            nn.init.constant_(part.weight, 0.2)
    with torch.no_grad():
        torch.onnx.export(module, inputs, path, opset_version=17, dynamo=False)
    if name in INT8:
        quantise(path, INT8[name][1])
