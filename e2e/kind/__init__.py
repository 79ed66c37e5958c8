"""The scenarios on a kind cluster: real kubelets, containers and a DRA driver, the controller as installed.

`make e2e-kind` does it all: build the image, make a cluster of three nodes, load the images, install
`overlay`, run `test_placement.py` and `test_drain.py` (the same scenarios as elsewhere) and `test_kind_*.py`,
and remove what it made, also after Ctrl-C or a kill; a Docker daemon that it had to start is stopped. With
`E2E_PROVIDER=kind`, `pytest e2e` does the same, also for a part of them. Variables:

* `KIND_KIT`: a folder that makes clusters without a registry (`setup`, `dockerd`, `cluster`, `images/`).
  Unset means `../shared/kind` if that exists, otherwise plain `kind`; `none` means plain `kind`.
* `KIND_CONTROLLER_IMAGE`: an image of the controller to test instead of building one.
* `KIND_WORKER_IMAGE`: what workers run; it must end on SIGTERM.
* For plain `kind` only: `KIND_NODE_IMAGE` (default: kind's own), `KIND_CONFIG` (default: three nodes), and
  `KIND_GPU_DRIVER_IMAGE`, see `gpu_driver.yaml` for what that driver has to do.
"""
