export interface DestinationKey {
  readonly namespace: string;
  readonly type: string;
  readonly name: string;
}
