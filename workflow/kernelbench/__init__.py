"""KernelBench: does torch.compile pay?

The stages of the study as importable functions, in the order in which data flows through them:
`study` (the config), `harness` (one measurement), `collect`, `statistics`, `jobs` and `summarize` (the tables),
`claims`, `figures` and `documents`; `promote` files a measured study as a recorded one.
"""
