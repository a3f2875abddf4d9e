import type { DestinationKey } from "../contracts/destination.ts";

/** The Durable Object name of a destination. */
export const destinationName = ({ namespace, type, name }: DestinationKey): string => `${namespace}${type}/${name}`;

/** Parses the Durable Object name of a destination. */
export function destinationKeyOf(objectName: string): DestinationKey {
  const parts = objectName.split("/");
  const [type = "", name = ""] = parts.splice(-2);
  return { namespace: parts.map((part) => `${part}/`).join(""), type, name };
}
