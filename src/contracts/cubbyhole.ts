/** The private storage of one token in one namespace. */
export interface CubbyholeOwner {
  readonly accessor: string;
  readonly namespaceId: string;
}

/** The capabilities of a writer: to add a path, to replace one. */
export interface CubbyholeRights {
  readonly create: boolean;
  readonly update: boolean;
}
