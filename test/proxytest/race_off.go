//go:build !race

package proxytest

const raceDetector = false
