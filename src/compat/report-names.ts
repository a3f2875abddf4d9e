/** The neutral name of an event type from an upstream stream (docs/internals/wire/nomad.md). */
export const neutralEventType = (type: unknown): unknown => (type === "NodeStreamEvent" ? "NodeEvent" : type);
