"""The functions that other packages bring, as calls find them: their plain names mean them where nothing else has the name."""

from __future__ import annotations

import functools

from sqlstream.catalog import CatalogFunction, system_path
from sqlstream.errors import UserError
from sqlstream.planner.statements.functions import function_ref
from sqlstream.spi.packages import Guest, Kind, find_guest, guest_names, load_guest


class PackageFunctions:
    """Implements `InstalledFunctions` by entry points. A package's module is imported when its function is first asked for."""

    def find(self, name: str) -> CatalogFunction | None:
        """The function of a name in small letters. UserError SS4014, SS4015 for a package that cannot be used."""
        guest = find_guest(Kind.FUNCTION, name)
        return None if guest is None else _declared(guest)

    def names(self) -> list[str]:
        return guest_names(Kind.FUNCTION)


@functools.cache
def _declared(guest: Guest) -> CatalogFunction:
    from sqlstream.python_functions import UserFunction

    found = load_guest(guest)
    if not isinstance(found, UserFunction):
        raise UserError(
            "SS4015",
            f'{guest.label} is "{guest.place}", which is no function of sqlstream',
            hint="decorate it: from sqlstream import udf, then @udf(result_type='BIGINT') above the function",
        )
    module, _, attribute = guest.place.partition(":")
    try:
        ref = function_ref(guest.name, module, attribute, found.declared)
    except UserError as error:
        raise UserError(
            "SS4015",
            f"{guest.label} is declared wrongly: {error.message}",
            hint=error.hint or f"report it to the authors of {guest.distribution}",
        ) from None
    return CatalogFunction(
        system_path(guest.name),
        f"{module}.{attribute}",
        ref,
        comment=found.declared.comment,
        package=guest.package,
    )
