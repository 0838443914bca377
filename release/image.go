package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the images: not root, and without a name, a home or a shell.
const nobody = "65532:65532"

// image writes an image of each program for Linux, which `docker load` reads: the binary and the certificates of public
// authorities, and nothing else. No daemon takes part.
func image(out, version string, at time.Time, built []binary) error {
	for _, b := range built {
		if b.os != "linux" {
			continue
		}
		layer, err := layerOf(b, at)
		if err != nil {
			return err
		}
		img, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			return err
		}
		img, err = mutate.ConfigFile(img, configOf(img, b, at))
		if err != nil {
			return err
		}

		tag, err := name.NewTag(fmt.Sprintf("shadowlimit/%s:%s-%s", b.command, version, b.arch))
		if err != nil {
			return err
		}
		file := filepath.Join(out, fmt.Sprintf("image_%s_linux_%s.tar", b.command, b.arch))
		if err := tarball.WriteToFile(file, tag, img); err != nil {
			return err
		}
	}
	return nil
}

func configOf(img v1.Image, b binary, at time.Time) *v1.ConfigFile {
	config, err := img.ConfigFile()
	if err != nil { // of an image in memory
		panic(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = b.os, b.arch, v1.Time{Time: at}
	config.Config = v1.Config{User: nobody, Entrypoint: []string{"/" + b.command}, WorkingDir: "/"}
	return config
}

func layerOf(b binary, at time.Time) (v1.Layer, error) {
	program, err := os.ReadFile(b.file)
	if err != nil {
		return nil, err
	}
	var certificates bytes.Buffer
	for root := range bundle.Roots() {
		if err := pem.Encode(&certificates, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}

	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	// The mount point of a volume for the stages: Docker gives a new volume the owner of the folder below it.
	if err := w.WriteHeader(&tar.Header{Name: "var/cache/", Mode: 0o755, Uid: 65532, Gid: 65532, ModTime: at, Typeflag: tar.TypeDir}); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		name    string
		mode    int64
		content []byte
	}{
		{b.command, 0o755, program},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates.Bytes()},
	} {
		err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: at, Typeflag: tar.TypeReg})
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil })
}
