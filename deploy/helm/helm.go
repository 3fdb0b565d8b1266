// Package helm holds nothing but the test of the Helm chart in folder quorate.
package helm
