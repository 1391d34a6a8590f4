"""The names of ops and cells as people write them, for tables and figures."""

NAMES = {
    "matmul": "matrix product",
    "matmul_bf16": "matrix product, bfloat16",
    "matmul_skinny": "matrix product, oblong",
    "scaled_matmul": "matrix product, float8",
    "softmax": "softmax",
    "softmax_256mib": "softmax, 256 MiB",
    "softmax_256mib_bf16": "softmax, 256 MiB, bfloat16",
    "layer_norm": "layer norm",
    "layer_norm_256mib": "layer norm, 256 MiB",
    "layer_norm_256mib_bf16": "layer norm, 256 MiB, bfloat16",
    "attention": "attention",
    "attention_d64": "attention, heads of 64",
    "attention_d64_causal": "causal attention, heads of 64",
    "attention_d128": "attention, heads of 128",
    "attention_d128_causal": "causal attention, heads of 128",
    "attention_d128_bf16": "attention, heads of 128, bfloat16",
    "attention_d128_causal_bf16": "causal attention, heads of 128, bfloat16",
    "products": "matrix product, aligned rows",
    "products-unaligned": "matrix product, unaligned rows",
    "rows": "softmax, layer norm",
    "attention-full-from-1024": "attention, 1,024 keys and more",
    "attention-causal-from-1024": "causal attention, 1,024 keys and more",
    "attention-short-and-decode": "attention, fewer keys or one query",
    "elementwise_chain": "element-wise chain",
    "matmul_softmax": "product and softmax",
    "linear_relu": "linear and relu",
    "mlp": "perceptron",
    "conv": "convolutions",
    "conv_wide": "wide convolutions",
    "transformer": "transformer, two layers",
    "transformer_fast": "fused transformer",
    "gpt": "decoder blocks",
    "gpt_training": "decoder blocks, training",
    "resnet50": "ResNet-50",
    "vit_b_16": "ViT-B/16",
    "convnext_tiny": "ConvNeXt-T",
    "bert_base": "BERT-base",
    "gpt2_prefill": "GPT-2 prefill",
    "llama_1b_prefill": "Llama 1B prefill",
    "llama_1b_decode": "Llama 1B decode",
    "resnet50_training": "ResNet-50 training",
    "gpt2_training": "GPT-2 training",
}
# Ops whose sizes are a batch, alone or with a length.
BATCHED = ("resnet50", "vit_b_16", "convnext_tiny", "bert_base", "llama_1b_decode", "resnet50_training")


def name(op: str, size: str = "") -> str:
    """Return the name of an op, or of one of its cells: "ResNet-50, batch 64"; of an unknown op its own."""
    known = NAMES.get(op, op)
    if not size:
        return known
    if op in BATCHED:
        return f"{known}, batch {size.partition('x')[0]}"
    if known != op and "x" in size:
        return f"{known} {size.replace('x', '×')}"
    return f"{known} {int(size):,}" if size.isdigit() else f"{known} {size}"
