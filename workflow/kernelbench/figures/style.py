"""The style of the paper's figures: sizes, fonts, colours, markers."""

# Inches: the width of a page and of one of its two columns.
WIDE, NARROW = 7.0, 3.35
STYLE = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.title_fontsize": 7,
    "axes.linewidth": 0.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "xtick.minor.width": 0.3,
    "ytick.minor.width": 0.3,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 1.5,
    "ytick.minor.size": 1.5,
    "lines.linewidth": 0.9,
    "lines.markersize": 3.2,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.4,
    "legend.columnspacing": 1.2,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
    "svg.fonttype": "path",
    "svg.hashsalt": "kernelbench",
}
# Okabe and Ito's colours without their yellow, which is too pale for a thin line on white. Seven
# markers to six colours: the pairs repeat only after 42 modes. The diamond is for means over sizes.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["s", "^", "v", "P", "X", "<", ">"]
# Modes that many studies share look the same in the figures of all of them.
SHARED = ("compile", "compile-reduce-overhead", "compile-max-autotune", "triton", "cuda-graph")
BASELINE = {"color": "black", "marker": "o"}
CONTROL_STYLE = {"color": "0.55", "marker": "o", "markersize": 2.2}
MEAN = "D"
# Libraries of hand-written kernels, beside which no other mode has these looks.
LIBRARIES = {
    "liger": {"color": COLOURS[5], "marker": "<"},
    "quack": {"color": COLOURS[2], "marker": ">"},
    "sdpa-flash": {"color": "0.5", "marker": "D"},
    "sdpa-cudnn": {"color": "#5D3A9B", "marker": "*"},
}
GREY, BAND = "0.45", "0.8"


def look(mode: str) -> dict:
    """Return the colour and marker of a mode that the article's figures share."""
    if mode == "eager":
        return BASELINE
    if mode in LIBRARIES:
        return LIBRARIES[mode]
    place = SHARED.index(mode)
    return {"color": COLOURS[place], "marker": MARKERS[place]}
