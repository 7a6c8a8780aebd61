"""A schema as a pydantic model: `jevmlx decide examples.ticket:Ticket "…"`."""

from typing import Literal

from pydantic import BaseModel, Field


class Ticket(BaseModel):
    """What is asked about a ticket."""

    team: Literal["billing", "technical", "sales"] = Field(description="Who should answer this ticket")
    urgent: bool = Field(description="Needs a reply today")
