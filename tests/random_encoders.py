"""Small encoders of several families with random weights, exported as optimum and sentence-transformers lay them out.  Needs torch and transformers."""
import json
import pathlib
import warnings

FLAGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
VOCABULARY, DIMS, LONGEST = 2000, 64, 64


def byte_level(texts):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    made = Tokenizer(models.BPE(unk_token=None))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return made, {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "unk_token": "<unk>"}


def word_piece(texts):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return made, {"pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}


def families():
    """name: (configuration, class, tokenizer, pooling)"""
    import transformers as t
    size = {"hidden_size": DIMS, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": VOCABULARY, "attn_implementation": "eager"}
    return {
        "roberta": (t.RobertaConfig(**size, max_position_embeddings=130, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1), t.RobertaModel, byte_level, "mean_tokens"),
        "mpnet": (t.MPNetConfig(**size, max_position_embeddings=130, pad_token_id=1), t.MPNetModel, byte_level, "mean_sqrt_len_tokens"),
        "distilbert": (t.DistilBertConfig(dim=DIMS, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=VOCABULARY, max_position_embeddings=128, pad_token_id=0, attn_implementation="eager"),
                       t.DistilBertModel, word_piece, "cls_token"),
        "modernbert": (t.ModernBertConfig(**size, max_position_embeddings=256, pad_token_id=0, cls_token_id=2, sep_token_id=3, bos_token_id=2, eos_token_id=3, local_attention=16,
                                          global_attn_every_n_layers=2), t.ModernBertModel, word_piece, "max_tokens"),
    }


def export(model, pad, path):
    import torch

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

    ids = torch.randint(5, 1000, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:], ids[1, 6:] = 0, pad
    names = ["input_ids", "attention_mask"]
    torch.onnx.export(Hidden(), (ids, mask), str(path), input_names=names, output_names=["last_hidden_state"], opset_version=17, dynamo=False,
                      dynamic_axes={name: {0: "b", 1: "t"} for name in [*names, "last_hidden_state"]})


def add_dense(to):
    """A Dense layer behind the pooling, of half as many numbers."""
    import torch
    from safetensors.torch import save_file
    (to / "2_Dense").mkdir()
    (to / "2_Dense/config.json").write_text(json.dumps({"in_features": DIMS, "out_features": DIMS // 2, "bias": True, "activation_function": "torch.nn.modules.activation.Tanh"}))
    save_file({"linear.weight": torch.randn(DIMS // 2, DIMS) / 8, "linear.bias": torch.randn(DIMS // 2)}, str(to / "2_Dense/model.safetensors"))
    return [("2_Dense", "Dense")]


def make(folder, texts):
    """Folders by name."""
    import torch
    from transformers import PreTrainedTokenizerFast
    warnings.filterwarnings("ignore")
    made = {}
    for name, (config, kind, tokenizer, pooling) in families().items():
        torch.manual_seed(1)
        to = pathlib.Path(folder) / name
        (to / "onnx").mkdir(parents=True)
        (to / "1_Pooling").mkdir()
        model = kind(config).eval()
        for weights in model.parameters():
            if weights.dim() > 1:
                torch.nn.init.normal_(weights, std=0.15)
        model.save_pretrained(to)
        trained, special = tokenizer(texts)
        PreTrainedTokenizerFast(tokenizer_object=trained, model_max_length=128, model_input_names=["input_ids", "attention_mask"], **special).save_pretrained(to)
        (to / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": DIMS, **{"pooling_mode_" + flag: flag == pooling for flag in FLAGS}}))
        modules = [("", "Transformer"), ("1_Pooling", "Pooling"), *(add_dense(to) if name == "distilbert" else [])]
        (to / "modules.json").write_text(json.dumps([{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
                                                     for i, (path, kind) in enumerate(modules)]))
        (to / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}))
        export(model, config.pad_token_id, to / "onnx/model.onnx")
        made[name] = to
    return made
