import { RELEASE } from "../../version.ts";

/** Shapes of OTLP in JSON (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). 64-bit numbers are texts. */

export const attributesOf = (attributes: Readonly<Record<string, string | number>>) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value },
  }));

export const nanosOf = (ms: number): string => `${ms}000000`;

/** The service, as the producer of all data. */
export const resource = { attributes: attributesOf({ "service.name": "sallyport", "service.version": RELEASE }) };
export const scope = { name: "sallyport", version: RELEASE };
