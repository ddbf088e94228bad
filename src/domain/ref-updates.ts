/** A move of a ref from one id to another, as git's protocol names it. */
export interface RefUpdate {
  /** Its full name, whose bytes are decoded as Latin-1, because they may not be UTF-8. */
  ref: string
  /** All zeros for a new ref. git compares it when it updates the ref. */
  old: string
  /** All zeros to delete the ref. */
  new: string
  /** Never set: it keeps this type and `NamedUpdate` apart. */
  encoding?: 'latin1'
}

/** The same as people read it: the name is decoded as UTF-8. */
export interface NamedUpdate extends Pick<RefUpdate, 'ref' | 'old' | 'new'> {
  encoding?: 'utf8'
}

/** Returns an update as people read it. */
export function decodeName({ ref, old, new: id }: RefUpdate): NamedUpdate {
  return { ref: Buffer.from(ref, 'latin1').toString(), old, new: id }
}
