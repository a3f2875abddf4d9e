import type { Request, ResponseDraft, SERVICES, ServiceName } from "@sallyport/csi-wire";

/** What a service does: one function a call. It throws a `Refusal` for everything that CSI has a code for. */
export type Calls<S extends ServiceName> = {
  readonly [R in (typeof SERVICES)[S][number]]: (request: Request<R>) => Promise<ResponseDraft<R>>;
};
