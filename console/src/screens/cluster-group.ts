/** Screens about the cluster, in one file for the browser. */
export { default as Events } from "./events/index.tsx";
export { default as Nodes } from "./nodes/index.tsx";
export { default as Storage } from "./storage/index.tsx";
