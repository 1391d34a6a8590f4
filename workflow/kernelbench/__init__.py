"""KernelBench: is torch.compile a free speedup?

The stages of the study as importable functions, in the order in which data flows through them:
`study` (the config), `harness` (one measurement), `collect`, `statistics`, `jobs` and `summarize` (the tables),
`figures`, `numbers` and `paper`; `promote` files a measured study as a recorded one.
"""
