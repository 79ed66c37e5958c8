"""The scenarios on a kind cluster: real kubelets, containers and a DRA driver, and the installed controller.

`make e2e-kind` builds the image, creates a cluster with three nodes, loads the images, installs `overlay`,
runs `test_placement.py`, `test_drain.py` and `test_kind_*.py`, and removes everything that it created, even
after Ctrl-C or a kill. It stops the Docker daemon if it started it. With `E2E_PROVIDER=kind`, `pytest e2e`
does the same and accepts a selection of tests. Variables:

* `KIND_KIT`: a folder that creates clusters without a registry (`setup`, `dockerd`, `cluster`, `images/`).
 Default: `../shared/kind` if that exists, otherwise plain `kind`; `none` means plain `kind`.
* `KIND_CONTROLLER_IMAGE`: a controller image to test instead of a newly built one.
* `KIND_WORKER_IMAGE`: the image of workers; it must exit on SIGTERM.
* For plain `kind` only: `KIND_NODE_IMAGE` (default: kind's own), `KIND_CONFIG` (default: three nodes), and
 `KIND_GPU_DRIVER_IMAGE`; `gpu_driver.yaml` specifies the driver.
"""
