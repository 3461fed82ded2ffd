// etcd and its two clients at an exact version, as one static binary: it acts as the program it is called by. There is a
// .mod file for each version that the lab has, beside which go.mod is only what tools look for.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "etcdctl":
		ctlv3.MustStart()
	case "etcdutl":
		root := &cobra.Command{Use: "etcdutl", Short: "An administrative command line tool for etcd3.", SilenceErrors: true}
		root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "(fields, json, protobuf, simple, table)")
		root.AddCommand(etcdutl.NewDefragCommand(), etcdutl.NewSnapshotCommand(), etcdutl.NewVersionCommand())
		if err := root.Execute(); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
	default:
		etcdmain.Main(os.Args)
	}
}
