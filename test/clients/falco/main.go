// Command falco runs the event source of the Falco plugin, and prints each event that it hands to Falco.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unsafe"

	"github.com/falcosecurity/plugin-sdk-go/pkg/sdk"
	"github.com/falcosecurity/plugins/plugins/hashicorp-vault/pkg/hashicorpvault"
)

// batch is a batch of one event in memory that Go can read.
type batch struct{ bytes.Buffer }

func (b *batch) Get(int) sdk.EventWriter  { return b }
func (b *batch) Len() int                 { return 1 }
func (b *batch) ArrayPtr() unsafe.Pointer { return nil }
func (b *batch) Free()                    {}
func (b *batch) Writer() io.Writer        { return b }
func (b *batch) SetTimestamp(uint64)      {}

func main() {
	plugin := &hashicorpvault.Plugin{}
	settings, _ := json.Marshal(map[string]string{"host_port": os.Args[1], "token": os.Args[2]})
	if err := plugin.Init(string(settings)); err != nil {
		panic(err)
	}
	instance, err := plugin.Open("")
	if err != nil {
		panic(err)
	}
	events := &batch{}
	for {
		events.Reset()
		count, err := instance.(sdk.NextBatcher).NextBatch(nil, events)
		if err != nil && !errors.Is(err, sdk.ErrTimeout) {
			panic(err)
		}
		if count > 0 {
			fmt.Println(string(bytes.TrimSpace(events.Bytes())))
		}
	}
}
