// SPDX-License-Identifier: Apache-2.0

// Command device-plugin offers devices of a node's network to its kubelet, as a NIC's plugin offers
// virtual functions: device-plugin RESOURCE DEVICE...
package main

import (
	"context"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const socket = "headrace-test.sock"

type plugin struct {
	api.UnimplementedDevicePluginServer
	devices []*api.Device
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (p *plugin) ListAndWatch(_ *api.Empty, kubelet api.DevicePlugin_ListAndWatchServer) error {
	if err := kubelet.Send(&api.ListAndWatchResponse{Devices: p.devices}); err != nil {
		return err
	}
	<-kubelet.Context().Done()
	return nil
}

func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range asked.ContainerRequests {
		log.Printf("given: %v", container.DevicesIDs)
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("device-plugin: allowed: RESOURCE DEVICE...")
	}
	own := &plugin{}
	for _, name := range os.Args[2:] {
		own.devices = append(own.devices, &api.Device{ID: name, Health: api.Healthy})
	}
	if err := os.RemoveAll(api.DevicePluginPath + socket); err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("unix", api.DevicePluginPath+socket)
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, own)
	ended := make(chan error)
	go func() { ended <- server.Serve(listener) }()
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	told := &api.RegisterRequest{Version: api.Version, Endpoint: socket, ResourceName: os.Args[1]}
	if _, err := api.NewRegistrationClient(kubelet).Register(context.Background(), told); err != nil {
		log.Fatal(err)
	}
	log.Fatal(<-ended)
}
