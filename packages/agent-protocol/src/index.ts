export * from "./bounds.ts";
export * from "./connection.ts";
export * from "./csi.ts";
export * from "./frames.ts";
export * from "./methods.ts";
export * from "./operation-states.ts";
export * from "./report.ts";
