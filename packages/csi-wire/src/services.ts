import { decode, encode } from "./codec.ts";
import type { Draft, Message } from "./messages.ts";

/** The calls of each service. Each takes `<Call>Request` and returns `<Call>Response`. */
export const SERVICES = {
  Identity: ["GetPluginInfo", "GetPluginCapabilities", "Probe"],
  Controller: [
    "ControllerGetCapabilities",
    "CreateVolume",
    "DeleteVolume",
    "ControllerPublishVolume",
    "ControllerUnpublishVolume",
    "ValidateVolumeCapabilities",
    "ListVolumes",
    "GetCapacity",
    "CreateSnapshot",
    "DeleteSnapshot",
    "ListSnapshots",
    "ControllerExpandVolume",
    "ControllerModifyVolume",
  ],
  Node: [
    "NodeStageVolume",
    "NodeUnstageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeGetVolumeStats",
    "NodeExpandVolume",
    "NodeGetCapabilities",
    "NodeGetInfo",
  ],
} as const;

export type ServiceName = keyof typeof SERVICES;
export type Rpc<S extends ServiceName = ServiceName> = (typeof SERVICES)[S][number];
export type Request<R extends Rpc> = Message<`${R}Request`>;
export type RequestDraft<R extends Rpc> = Draft<`${R}Request`>;
export type Response<R extends Rpc> = Message<`${R}Response`>;
export type ResponseDraft<R extends Rpc> = Draft<`${R}Response`>;

const services = Object.keys(SERVICES) as ServiceName[];
const serviceOf = (rpc: Rpc) => services.find((service) => (SERVICES[service] as readonly string[]).includes(rpc));

export interface Method<R extends Rpc> {
  readonly path: string;
  readonly requestStream: false;
  readonly responseStream: false;
  readonly requestSerialize: (request: RequestDraft<R>) => Buffer;
  readonly requestDeserialize: (bytes: Buffer) => Request<R>;
  readonly responseSerialize: (response: ResponseDraft<R>) => Buffer;
  readonly responseDeserialize: (bytes: Buffer) => Response<R>;
}

/** The gRPC definition of a call: its path, serializers and deserializers. */
export const methodOf = <R extends Rpc>(rpc: R): Method<R> => ({
  path: `/csi.v1.${serviceOf(rpc)}/${rpc}`,
  requestStream: false,
  responseStream: false,
  requestSerialize: (request) => encode(`${rpc}Request`, request),
  requestDeserialize: (bytes) => decode(`${rpc}Request`, bytes),
  responseSerialize: (response) => encode(`${rpc}Response`, response),
  responseDeserialize: (bytes) => decode(`${rpc}Response`, bytes),
});
