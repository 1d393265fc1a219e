/** The reason of a pause at a cap: `field` leaves no room for a step with this need. */
export function capReason(field: string, need: string): string {
  return `${field} leaves no room for the next step, which ${need}; raise it to go on.`;
}

/** Whether a batch was paused at its cap, by the reason of its pause. A later pause by a person replaces the reason. */
export function isCapReason(reason: string): boolean {
  return /^max_\w+ leaves no room for the next step, /.test(reason);
}
