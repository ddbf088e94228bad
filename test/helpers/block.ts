const never = new Int32Array(new SharedArrayBuffer(4))

/** Blocks the event loop for milliseconds, as a long computation does, without using a core. */
export function block(milliseconds: number): void {
  Atomics.wait(never, 0, 0, milliseconds)
}
