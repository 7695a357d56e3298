// kms: a KMS v2 plugin on Kubernetes' own server library, with AES-GCM keys that are derived from
// their names. Tests call it to prove that plugins written for kube-apiserver work.
package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"k8s.io/kms/pkg/service"
)

// annotation is required by Decrypt, so that a client that loses annotations fails.
const annotation = "scheme.kms.insula.test"

type plugin struct{ key, healthz string }

func main() {
	listen := flag.String("listen", "", "path of the socket; @NAME is an abstract socket")
	key := flag.String("key", "key-1", "name of the key that encrypts")
	healthz := flag.String("healthz", "ok", "health that Status reports")
	flag.Parse()
	served := service.NewGRPCService(*listen, 3*time.Second, plugin{*key, *healthz})
	log.Fatal(served.ListenAndServe())
}

func (p plugin) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: p.healthz, KeyID: p.key}, nil
}

func (p plugin) Encrypt(_ context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	if uid == "" {
		return nil, errors.New("the request has no UID")
	}
	sealer, err := sealer(p.key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, sealer.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{
		Ciphertext:  sealer.Seal(nonce, nonce, data, nil),
		KeyID:       p.key,
		Annotations: map[string][]byte{annotation: []byte("aes-256-gcm")},
	}, nil
}

func (p plugin) Decrypt(_ context.Context, uid string, request *service.DecryptRequest) ([]byte, error) {
	if uid == "" || string(request.Annotations[annotation]) != "aes-256-gcm" {
		return nil, fmt.Errorf("the request %q has no UID or lost its annotation", uid)
	}
	sealer, err := sealer(request.KeyID)
	if err != nil {
		return nil, err
	}
	if len(request.Ciphertext) < sealer.NonceSize() {
		return nil, errors.New("the ciphertext is too short")
	}
	nonce, sealed := request.Ciphertext[:sealer.NonceSize()], request.Ciphertext[sealer.NonceSize():]
	return sealer.Open(nil, nonce, sealed, nil)
}

// sealer returns the cipher of the key with this name.
func sealer(name string) (cipher.AEAD, error) {
	key := sha256.Sum256([]byte(name))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
