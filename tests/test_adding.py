"""An operation and a mode are added as docs/extending.md says: ten lines each, and they are measured."""

import re

import pandas as pd
import pytest
import yaml
from checkout import ROOT, TINY, Checkout

PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
ADDED = r"`(workflow/kernelbench/harness/(?:workloads|runners)/\w+\.py)`.*?```python\n(.*?)```\n+```yaml\n(.*?)```"


@pytest.mark.slow
def test_an_operation_and_a_mode_of_ten_lines_each_are_measured(tmp_path):
    found = re.findall(ADDED, PAGE, re.DOTALL)
    assert [path.split("/")[-2] for path, _, _ in found] == ["workloads", "runners"]
    checkout = Checkout(tmp_path)
    config = {**TINY, "repeats": 1}
    for path, code, lines in found:
        section, *entry = lines.splitlines()
        assert sum(map(bool, code.splitlines())) + len(entry) <= 10
        (tmp_path / path).write_text(code, encoding="utf-8")
        config[section.rstrip(":")] = config[section.rstrip(":")] | yaml.safe_load(lines)[section.rstrip(":")]
    checkout.configure(config)
    checkout.run("results/cpu-test/summary.csv")
    summary = pd.read_csv(tmp_path / "results" / "cpu-test" / "summary.csv")
    latency = summary[summary.metric == "latency"].set_index(["op", "mode"])
    assert set(latency.loc["silu"].index) == set(config["modes"])
    for cell in (("silu", "eager"), ("silu", "compile"), ("silu", "inference"), ("softmax", "inference")):
        assert latency.loc[cell].status == "ok" and latency.loc[cell].estimate > 0, cell
