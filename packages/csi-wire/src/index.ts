export * from "./codec.ts";
export * from "./messages.ts";
export * from "./numbers.ts";
export * from "./services.ts";
