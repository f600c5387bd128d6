"""The report's colours: to be told from the page and from each other, also by those who see fewer of them."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from lakehouse.contracts.silver import CLASSES

CSS = (Path(__file__).parents[4] / "tidemark" / "extras" / "report" / "assets" / "report.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--c-([\w-]+): (#[0-9a-f]{6});", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)

# Machado, Oliveira and Fernandes 2009, the whole defect, over linear RGB.
SEEN_BY = {
    "most": np.eye(3),
    "protanopes": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopes": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    "tritanopes": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
}
# Ottosson's OKLab, to six digits: distances in it are as large as they look.
TO_LMS = np.array([[0.412221, 0.536333, 0.051446], [0.211903, 0.6807, 0.107397], [0.088302, 0.281719, 0.629979]])
TO_LAB = np.array([[0.210454, 0.793618, -0.004072], [1.977998, -2.428592, 0.450594], [0.025904, 0.782772, -0.808676]])
BARELY_TOLD = 0.02


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(linear(each) @ np.array([0.2126, 0.7152, 0.0722])) + 0.05 for each in (one, other))
    return high / low


def lab(colour: str, matrix: np.ndarray) -> np.ndarray:
    return np.asarray(TO_LAB @ np.cbrt(TO_LMS @ np.clip(matrix @ linear(colour), 0, 1)))


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_stand_out_from_the_page_and_from_cards(colours: dict[str, str]) -> None:
    grounds = [colours["page"], colours["card"]]
    text = {name: min(contrast(colours[name], ground) for ground in grounds) for name in ("ink", "dim", "critical")}
    marks = set(colours) - {"page", "card", "grid", *text}
    assert {name: ratio for name, ratio in text.items() if ratio < 4.5} == {}
    assert {name for name in marks if min(contrast(colours[name], ground) for ground in grounds) < 3} == set()


@pytest.mark.parametrize("who", SEEN_BY)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_classes_are_told_apart_by_everybody(colours: dict[str, str], who: str) -> None:
    seen = {name: lab(colours[name], SEEN_BY[who]) for name in CLASSES}
    far = {pair: float(np.linalg.norm(seen[pair[0]] - seen[pair[1]])) for pair in combinations(CLASSES, 2)}
    assert {pair: distance for pair, distance in far.items() if distance < 6 * BARELY_TOLD} == {}
