import type { Request, ResponseDraft, SERVICES, ServiceName } from "@sallyport/csi-wire";

/** The implementation of a service: one function per call. It throws a `Refusal` for every gRPC error. */
export type Calls<S extends ServiceName> = {
  readonly [R in (typeof SERVICES)[S][number]]: (request: Request<R>) => Promise<ResponseDraft<R>>;
};
