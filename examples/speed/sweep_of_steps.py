"""
A sweep: leaders and layers by step size and number of tokens
=============================================================

The theorems of `arXiv 2407.01602 <https://arxiv.org/abs/2407.01602>`_ state that
leaders emerge and tokens converge, but not the number of leaders, nor the layer at
which all tokens are decided. A sweep measures both for several hundred random token
sets, each run to its certificate. One function, one grid, one table: a row depends on
its parameters and its seed, not on the workers, and a sweep that is stopped can be
resumed.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client

import hardmax as hm

# %%
# "leaders" is a cell that is built in. Workers here are threads of this process, and
# cells run in processes of their own. Without ``engine`` there is a worker process for
# each core; a script then has to call it below ``if __name__ == "__main__":``, since
# workers import it.

grid = {
    "alpha": np.geomspace(0.05, 5, 7).round(4).tolist(),
    "n": [10, 100, 1000],
    "seed": range(12),
}
with (
    tempfile.TemporaryDirectory() as folder,
    Client(
        processes=False,
        n_workers=1,
        threads_per_worker=1,
        dashboard_address="127.0.0.1:0",
    ) as client,
):
    found = hm.sweep("leaders", grid, out=folder, engine=client)
    print(f"{found.rows} cells, {found.errors} errors")
    frame = found.to_frame()
assert found.complete
assert frame["certified"].all()

# %%
# The layer of the certificate, mean and middle half. Ten tokens need a layer or so; for
# more, small steps take longer. The second picture is the number of leaders, which
# hardly depends on the step.

figure = hm.draw.plot_sweep(frame, x="alpha", y="layer", by="n")
figure.axes[0].set(xlabel=r"$\alpha$", ylabel="layer of the certificate")
plt.show()

figure = hm.draw.plot_sweep(frame, x="alpha", y="leaders", by="n")
figure.axes[0].set(xlabel=r"$\alpha$", ylabel="leaders", ylim=(0, None))
plt.show()

# %%
# The table, and assertions.

table = frame.pivot_table(
    index="alpha", columns="n", values=["layer", "leaders"]
).round(1)
print(table.to_string())
layers = frame.groupby("alpha")["layer"].mean()
assert layers.iloc[0] > 3 * layers.iloc[-1]
assert frame[frame["n"] == 10].groupby("alpha")["layer"].mean().max() < 2

# %%
# What to try
# -----------
# ``hardmax sweep leaders --set alpha=0.05:5:log:20 --set n=10,100,1000 --seeds 100
# --out runs/leaders`` is the same on the command line, and larger. Your own function,
# ``cell(params, rng)``, can replace "leaders".
