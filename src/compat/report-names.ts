/** The neutral name of an event type that an upstream stream passes on (docs/internals/wire/nomad.md). */
export const neutralEventType = (type: unknown): unknown => (type === "NodeStreamEvent" ? "NodeEvent" : type);
