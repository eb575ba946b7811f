// A result table kept up to date by its changelog.

export const ROWS_MAX = 100000;
export const CHANGES_MAX = 5000;

const OPS = { INSERT: "+I", UPDATE_BEFORE: "-U", UPDATE_AFTER: "+U", DELETE: "-D" };
const keyOf = (fields) => JSON.stringify(fields);

// Applies changes of rows that have no key: a -U or -D removes one row with the same fields, and a +U that follows a -U takes
// its place. Rows beyond ROWS_MAX and changes beyond CHANGES_MAX are counted and dropped, the oldest first.
export class ChangingTable {
  constructor(rowsMax = ROWS_MAX, changesMax = CHANGES_MAX) {
    this.rowsMax = rowsMax;
    this.changesMax = changesMax;
    this.rows = [];
    this.changes = [];
    this.changeCount = 0;
    this.droppedRows = 0;
    this.version = 0;
    this.serial = 0;
    this.places = new Map();
    this.vacated = [];
    this.isVacating = false;
    this.gaps = 0;
  }

  apply(changes) {
    this.version += 1;
    for (const change of changes) this.applyOne(change.kind, change.fields);
    if (this.changes.length > 2 * this.changesMax) this.changes = this.changes.slice(-this.changesMax);
    if (this.gaps > 1000 && this.gaps > this.rows.length / 2) this.compact();
  }

  applyOne(kind, fields) {
    this.changeCount += 1;
    this.changes.push({ op: OPS[kind], fields, number: this.changeCount });
    if (kind === "INSERT") this.put(fields, -1);
    else if (kind === "UPDATE_AFTER") this.put(fields, this.vacated.length > 0 ? this.vacated.shift() : -1);
    else this.take(fields, kind === "UPDATE_BEFORE");
    this.isVacating = kind === "UPDATE_BEFORE";
  }

  put(fields, place) {
    const row = { fields, version: this.version, id: (this.serial += 1) };
    if (place >= 0) {
      this.rows[place] = row;
      this.gaps -= 1;
    } else {
      place = this.rows.length;
      this.rows.push(row);
    }
    const key = keyOf(fields);
    const places = this.places.get(key);
    if (places === undefined) this.places.set(key, [place]);
    else places.push(place);
    if (this.size > this.rowsMax) this.dropOldest();
  }

  take(fields, isUpdated) {
    const key = keyOf(fields);
    const places = this.places.get(key);
    if (places === undefined) return;
    const place = places.pop();
    if (places.length === 0) this.places.delete(key);
    this.rows[place] = null;
    this.gaps += 1;
    // Places that a run of -U has left and no +U has taken stay empty: the rows are gone.
    if (isUpdated && !this.isVacating) this.vacated = [];
    if (isUpdated) this.vacated.push(place);
  }

  // The first tenth goes at once, so that dropping costs little per row.
  dropOldest() {
    this.compact();
    const dropped = Math.ceil(this.rowsMax / 10);
    this.droppedRows += dropped;
    this.rows = this.rows.slice(dropped);
    this.index();
  }

  compact() {
    this.rows = this.rows.filter((row) => row !== null);
    this.index();
  }

  index() {
    this.gaps = 0;
    this.vacated = [];
    this.places.clear();
    this.rows.forEach((row, place) => {
      const key = keyOf(row.fields);
      const places = this.places.get(key);
      if (places === undefined) this.places.set(key, [place]);
      else places.push(place);
    });
  }

  get size() {
    return this.rows.length - this.gaps;
  }

  current() {
    return this.gaps === 0 ? this.rows : this.rows.filter((row) => row !== null);
  }

  latestChanges() {
    return this.changes.slice(-this.changesMax);
  }
}
