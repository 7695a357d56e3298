package main

import (
	"net/http"
	"sync/atomic"
)

// counter counts requests and responses by kind.
type counter struct {
	// Lists requested as watches.
	streamed atomic.Int64
	// Other reads: lists and objects.
	plain atomic.Int64
	// Response bodies in protobuf.
	sealed atomic.Int64
	// Request bodies and response bodies in CBOR, watches included.
	cborSent, cborReceived atomic.Int64
}

// through is a transport that counts.
func (c *counter) through(next http.RoundTripper) http.RoundTripper {
	return counting{c, next}
}

type counting struct {
	counter *counter
	next    http.RoundTripper
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	switch {
	case request.URL.Query().Get("sendInitialEvents") == "true":
		c.counter.streamed.Add(1)
	case request.Method == http.MethodGet && request.URL.Query().Get("watch") == "":
		c.counter.plain.Add(1)
	}
	switch request.Header.Get("Content-Type") {
	case "application/cbor", "application/apply-patch+cbor":
		c.counter.cborSent.Add(1)
	}
	response, err := c.next.RoundTrip(request)
	if err != nil {
		return response, err
	}
	switch contentType := response.Header.Get("Content-Type"); {
	case sealed(contentType):
		c.counter.sealed.Add(1)
	case contentType == "application/cbor", contentType == "application/cbor-seq":
		c.counter.cborReceived.Add(1)
	}
	return response, err
}

func sealed(contentType string) bool {
	const protobuf = "application/vnd.kubernetes.protobuf"
	return len(contentType) >= len(protobuf) && contentType[:len(protobuf)] == protobuf
}
