/** The name of a flat namespace (cluster routes). */
export const NAMESPACE_NAME = /^[a-zA-Z0-9-]{1,128}$/;
