//go:build tools

// Package tools pins the version of Kueue.
package tools

import _ "sigs.k8s.io/kueue/cmd/kueue"
