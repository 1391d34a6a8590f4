# Run by Snakemake in the active conda environment, from the folder that Snakemake was started in: the checkout.
# Its copy lies elsewhere, so its own path says nothing. Conda environments do not notice a changed lock: remove
# .snakemake/conda after one.
set -eu
python -m pip install -r envs/requirements.txt -c envs/constraints-cuda.txt
python -m pip install --no-build-isolation --no-deps -e .
