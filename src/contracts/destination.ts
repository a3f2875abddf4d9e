export interface DestinationKey {
  readonly namespace: string;
  readonly type: string;
  readonly name: string;
}

/** The name of the object that a destination is. */
export const destinationName = ({ namespace, type, name }: DestinationKey): string => `${namespace}${type}/${name}`;

/** The destination that an object is, by the object's name. */
export function destinationKeyOf(objectName: string): DestinationKey {
  const parts = objectName.split("/");
  const [type = "", name = ""] = parts.splice(-2);
  return { namespace: parts.map((part) => `${part}/`).join(""), type, name };
}
