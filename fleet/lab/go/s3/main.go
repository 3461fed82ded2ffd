// An S3 server that keeps buckets as directories, objects as files and accounts in a file: a lab's stand-in for the
// object storage of a cloud, with real signatures, multipart uploads, versions and refusals.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:7070", "address and port")
	data := flag.String("data", "", "directory of everything that is kept")
	region := flag.String("region", "us-east-1", "region that requests are signed for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, *data, *region); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context, listen, data, region string) error {
	place := func(name string) string { return filepath.Join(data, name) }
	for _, name := range []string{"buckets", "attributes", "versions", "accounts"} {
		if err := os.MkdirAll(place(name), 0o700); err != nil {
			return err
		}
	}
	// Beside the objects and not in extended attributes: not every file system has those.
	attributes, err := meta.NewSideCar(place("attributes"))
	if err != nil {
		return err
	}
	options := posix.PosixOpts{
		SideCarDir:          place("attributes"),
		VersioningDir:       place("versions"),
		Concurrency:         64,
		CopyObjectThreshold: 5 << 30,
	}
	backend, err := posix.New(place("buckets"), attributes, options)
	if err != nil {
		return err
	}
	return embedgw.RunVersityGW(ctx, backend, &embedgw.Config{
		RootUserAccess:    os.Getenv("ROOT_ACCESS_KEY"),
		RootUserSecret:    os.Getenv("ROOT_SECRET_KEY"),
		Region:            region,
		Ports:             []string{listen},
		MaxConnections:    4096,
		MaxRequests:       1024,
		MultipartMaxParts: 10000,
		KeepAlive:         true,
		Quiet:             true,
		HealthPath:        "/healthz",
		IAMDir:            place("accounts"),
		IAMCacheDisable:   true, // an account that was removed is refused at once
	})
}
