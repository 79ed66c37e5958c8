//go:build tools

// Package tools pins kwok, which plays the kubelets; nothing is ever built from this file.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
