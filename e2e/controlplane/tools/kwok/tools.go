//go:build tools

// Package tools pins kwok, which replaces kubelets; this file is never built.
package tools

import (
	_ "sigs.k8s.io/kwok/cmd/kwok"
)
