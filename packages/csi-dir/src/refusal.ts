import { status } from "@grpc/grpc-js";

/** A gRPC error of a call. */
export class Refusal extends Error {
  readonly code: status;
  constructor(code: status, message: string) {
    super(message);
    this.code = code;
  }
}

export const invalid = (message: string) => new Refusal(status.INVALID_ARGUMENT, message);
export const notFound = (message: string) => new Refusal(status.NOT_FOUND, message);
export const exists = (message: string) => new Refusal(status.ALREADY_EXISTS, message);
export const failedPrecondition = (message: string) => new Refusal(status.FAILED_PRECONDITION, message);
export const outOfRange = (message: string) => new Refusal(status.OUT_OF_RANGE, message);
export const exhausted = (message: string) => new Refusal(status.RESOURCE_EXHAUSTED, message);
export const aborted = (message: string) => new Refusal(status.ABORTED, message);

const FULL = ["ENOSPC", "EDQUOT"];

/** Converts any failure to a gRPC error. */
export function refusalOf(failure: unknown): Refusal {
  if (failure instanceof Refusal) return failure;
  const code = codeOf(failure);
  if (code !== undefined && FULL.includes(code)) return exhausted("no space is left on the device");
  return new Refusal(status.INTERNAL, failure instanceof Error ? failure.message : String(failure));
}

/** The code of a system error, such as ENOENT. */
export const codeOf = (failure: unknown): string | undefined =>
  failure instanceof Error && "code" in failure && typeof failure.code === "string" ? failure.code : undefined;
