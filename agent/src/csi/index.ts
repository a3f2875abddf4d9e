export { csiConfig } from "./config.ts";
export { Csi } from "./csi.ts";
